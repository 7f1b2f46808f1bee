-- incarnations: the lives, and the floor that each has reached: all that it is owed below `passed`
-- ought to be settled. It is the highest floor in its settlements, and in its cursor while it lasts.
SELECT l.*,
       greatest(l.floor, coalesce(f.floor, l.floor), coalesce(c.floor, l.floor)) AS passed
FROM lives l
LEFT JOIN (SELECT incarnation, max(floor) AS floor FROM floors GROUP BY incarnation) f
  ON f.incarnation = l.incarnation
LEFT JOIN cursors c
  ON c.subscription = l.subscription AND l.until IS NULL
