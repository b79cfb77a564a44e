"""Stages: one `@deploy` function per step of the lab, for this project and for other people's deploys."""
