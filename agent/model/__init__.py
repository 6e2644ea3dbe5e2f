"""A language model as a service: what is asked and answered, the client, budgets, what may be sent and to whom."""
