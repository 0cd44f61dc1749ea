-- The text of one recovery policy version. $1 version. -> text.
SELECT body FROM oncepay.recovery_policy WHERE version = $1::text
