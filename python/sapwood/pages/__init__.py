"""Listings and pages of files, runs, traces and studies."""
