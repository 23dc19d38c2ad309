// Package worker runs scripts inside a worker process: see package sandbox.
package worker
