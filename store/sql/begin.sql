-- Opens a transaction that spans two pipelines (recover's claim: pick, decide in between, write).
BEGIN
