-- Empties the copy of pipeline/transition.def before it is written afresh, in one transaction.
DELETE FROM oncepay.state_transition
