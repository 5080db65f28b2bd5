// Package netns is what lameduck needs of a network namespace: a way in, its addresses and gateways, and its counters.
package netns
