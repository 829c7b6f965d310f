"""A long run of churn, and whether anything is lost, left over or grows by it."""
