-- Which synchronous standbys a commit waits for. -> empty: none.
SELECT current_setting('synchronous_standby_names')
