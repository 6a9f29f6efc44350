"""The anonymity gate: may these synthetic images be called verified-anonymous?"""
