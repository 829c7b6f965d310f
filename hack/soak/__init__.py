"""A long run of churn, and checks for lost objects, leftovers and growth."""
