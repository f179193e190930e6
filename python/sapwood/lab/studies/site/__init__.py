"""`sapwood lab site`: what many jobs that read at once get from storage, and where their time goes."""
