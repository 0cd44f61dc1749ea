-- The payment that a target's pointer names: its last one. $1 merchant, $2 kind, $3 id. -> payment, merchant; or none.
SELECT t.payment_id, t.merchant
  FROM oncepay.active_payment t
 WHERE t.merchant = $1::text AND t.target_kind = $2::text AND t.target_id = $3::text
