-- Which synchronous standbys a commit waits for, and the time. -> empty: none; now.
SELECT current_setting('synchronous_standby_names'), now()
