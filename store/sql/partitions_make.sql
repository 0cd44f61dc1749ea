-- Makes the partitions of the next seven days. -> how many were made.
SELECT oncepay.make_partitions()
