-- Capability rows: a version, once written, stays what it was. $1 PSPs; $2 versions; $3 facts (JSON).
INSERT INTO oncepay.capability (psp, version, facts)
SELECT DISTINCT ON (psp, version) psp, version, facts::jsonb
  FROM unnest($1::text[], $2::int4[], $3::text[]) AS d(psp, version, facts)
    ON CONFLICT DO NOTHING
