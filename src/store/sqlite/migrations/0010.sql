-- Whoever watches asks every second for the runs that are not over; those that are stay for weeks.

CREATE INDEX runs_not_over ON runs (id) WHERE state IN ('running', 'canary', 'paused');
