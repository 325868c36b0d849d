"""Incidents: findings grouped, weighed, told and closed."""
