-- One row of the transition table. $1 entity, $2 from, $3 to, $4 why.
INSERT INTO oncepay.state_transition (entity, from_status, to_status, why)
VALUES ($1::smallint, $2::smallint, $3::smallint, $4)
