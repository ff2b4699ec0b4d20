-- Whose key a nonce was issued to. NULL: issued before that was asked for; such nonces expire.
ALTER TABLE nonces ADD COLUMN signer TEXT;

-- A nonce that was issued for something else, used before or expired keeps a submission at the
-- lowest level, unless an operator audited it.
UPDATE listings SET trust = 'self-reported'
WHERE trust IN ('signed', 'reproduced') AND sequence IN (
    SELECT sequence FROM submissions WHERE nonce_standing IN ('foreign', 'reused', 'expired')
);
