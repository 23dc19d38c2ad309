// Package telemetry tells monitoring what a host does: spans and metrics over
// OTLP where the environment of OpenTelemetry asks for them, and numbers for
// Prometheus, health and readiness over HTTP where the settings do. Names of
// servers and tools, outcomes, times and sizes are told; arguments, results and
// the texts of errors never are.
//
// docs/TELEMETRY.md lists the names.
package telemetry
