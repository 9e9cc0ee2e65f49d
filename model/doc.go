// Package model prices cache-line traffic.
package model
