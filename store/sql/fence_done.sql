-- All attempts of these fence batches have results. $1 fence_batch ids.
DELETE FROM oncepay.fence_batch WHERE id = ANY ($1::uuid[])
