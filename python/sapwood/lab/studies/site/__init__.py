"""`sapwood lab site`: the rate of many jobs that read from storage at once, and where their time goes."""
