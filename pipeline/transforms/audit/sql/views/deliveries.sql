-- deliveries: settlements that say when their delivery began.
--
-- What a lost consumer held, and what was taken from one whose lock ended, has the time of its end
-- for both: there it isn't known when it began. (A consumer that takes messages settled has both at
-- the same moment, too, and there it is true.)
SELECT *
FROM settlements
WHERE delivered_at IS NOT NULL
  AND (delivered_at < settled_at OR outcome = 'accepted')
