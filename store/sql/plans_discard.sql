-- Has the session plan its statements anew at their next use: a plan is kept, and the tables that it was made
-- for grow. What is prepared stays prepared. No parameters, no rows.
DISCARD PLANS
