-- The message went well after all, or is a dead letter now. $1 consumer, $2 message.
DELETE FROM oncepay.delivery_trial WHERE consumer = $1::text AND message = $2::text
