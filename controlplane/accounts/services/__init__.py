"""The only writers of users, tokens and login links. (The audit log: controlplane/accounts/audit.py.)"""
