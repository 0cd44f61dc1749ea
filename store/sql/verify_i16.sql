-- I16: maker and checker are two people on every manual transition. This schema has no manual
-- commands yet, so nobody can have approved one: any trace of one is an offence. Result as in
-- verify_i01.sql.
WITH bad AS (
    SELECT e.attempt_id AS id,
           format('evidence %s was entered by hand and nobody approved it', e.id) AS what
      FROM oncepay.evidence e WHERE e.source = 9
    UNION ALL
    SELECT c.attempt_id, format('case %s asks for two people and was closed without them', c.id)
      FROM oncepay.manual_case c WHERE c.status = 50 AND c.kind IN (2, 3, 4, 9))
SELECT count(*) OVER (), b.id::text, b.what FROM bad b ORDER BY b.id LIMIT 20
