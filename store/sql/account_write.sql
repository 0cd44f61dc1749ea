-- Channel accounts of the configuration. $1 ids; $2 PSPs; $3 failure domains; $4 capability versions.
INSERT INTO oncepay.channel_account AS a (id, psp, failure_domain, capability_version)
SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::int4[])
    ON CONFLICT (id) DO UPDATE
   SET failure_domain = excluded.failure_domain, capability_version = excluded.capability_version, updated_at = now()
 WHERE a.psp = excluded.psp
