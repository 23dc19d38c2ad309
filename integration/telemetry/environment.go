package telemetry

import (
	"log/slog"
	"os"
	"strings"
)

// The protocols of OTLP.
const (
	protocolGRPC     = "grpc"
	protocolProtobuf = "http/protobuf"
	protocolJSON     = "http/json"
)

// plan is what OpenTelemetry's environment variables ask for. All others of
// them are read by the SDK itself.
type plan struct {
	traces, metrics string // a protocol; "": off
}

func (p plan) on() bool { return p.traces != "" || p.metrics != "" }

// planFromEnvironment reads which signals go where. A signal is on where its
// exporter is "otlp", or where that is not said and an endpoint is named.
func planFromEnvironment(log *slog.Logger) plan {
	if strings.EqualFold(variable("OTEL_SDK_DISABLED"), "true") {
		return plan{}
	}
	return plan{traces: protocolOf("TRACES", log), metrics: protocolOf("METRICS", log)}
}

func protocolOf(signal string, log *slog.Logger) string {
	if !wants(signal, log) {
		return ""
	}
	protocol := variable("OTEL_EXPORTER_OTLP_" + signal + "_PROTOCOL")
	if protocol == "" {
		protocol = variable("OTEL_EXPORTER_OTLP_PROTOCOL")
	}
	switch protocol {
	case protocolGRPC, protocolProtobuf, protocolJSON:
		return protocol
	case "":
		return protocolProtobuf
	}
	log.Warn("OTEL_EXPORTER_OTLP_PROTOCOL is not known; http/protobuf is used", "protocol", protocol,
		"hint", "Use grpc, http/protobuf or http/json.")
	return protocolProtobuf
}

func wants(signal string, log *slog.Logger) bool {
	asked := variable("OTEL_" + signal + "_EXPORTER")
	if asked == "" {
		return variable("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || variable("OTEL_EXPORTER_OTLP_"+signal+"_ENDPOINT") != ""
	}
	otlp := false
	for name := range strings.SplitSeq(asked, ",") {
		switch strings.TrimSpace(name) {
		case "otlp":
			otlp = true
		case "none", "":
		default:
			log.Warn("an exporter that metamcp does not have is ignored", "variable", "OTEL_"+signal+"_EXPORTER", "exporter", strings.TrimSpace(name),
				"hint", "Use otlp or none; for Prometheus there is --metrics.")
		}
	}
	return otlp
}

func variable(name string) string { return strings.TrimSpace(os.Getenv(name)) }
