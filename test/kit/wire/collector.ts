/** A collector of spans that keeps what it gets: OTLP in JSON or Protocol Buffers, and Zipkin's form. @module */

import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { Buffer } from "node:buffer";
import { gunzipSync } from "node:zlib";
import { Protobuf } from "../../../src/wire/mod.ts";

export interface TakenRequest {
  readonly url: string;
  readonly headers: Readonly<Record<string, unknown>>;
  readonly body: unknown;
}

export interface TestCollector extends AsyncDisposable {
  readonly taken: TakenRequest[];
  /** `http://127.0.0.1:4318`. */
  readonly url: string;
  readonly port: number;
}

/** The part of opentelemetry-proto that is sent. */
const OTLP_TYPES = {
  ExportTraceServiceRequest: { resourceSpans: "1 repeated ResourceSpans" },
  ResourceSpans: { resource: "1 Resource", scopeSpans: "2 repeated ScopeSpans" },
  Resource: { attributes: "1 repeated KeyValue" },
  ScopeSpans: { scope: "1 InstrumentationScope", spans: "2 repeated Span" },
  InstrumentationScope: { name: "1 string", version: "2 string" },
  Span: {
    traceId: "1 bytes",
    spanId: "2 bytes",
    parentSpanId: "4 bytes",
    name: "5 string",
    kind: "6 int32",
    startTimeUnixNano: "7 fixed64",
    endTimeUnixNano: "8 fixed64",
    attributes: "9 repeated KeyValue",
    events: "11 repeated Event",
    status: "15 Status",
    flags: "16 fixed32",
  },
  Event: { timeUnixNano: "1 fixed64", name: "2 string", attributes: "3 repeated KeyValue" },
  Status: { message: "2 string", code: "3 int32" },
  KeyValue: { key: "1 string", value: "2 AnyValue" },
  AnyValue: { stringValue: "1 oneof string", intValue: "3 oneof int64" },
} as const;

type CollectorAnswer = readonly [status: number, headers: Readonly<Record<string, string>>];

/** Answers with `answers` in turn, then with 200. */
export async function startTestCollector(
  { answers = [], host = "127.0.0.1" }: {
    readonly answers?: readonly CollectorAnswer[];
    readonly host?: string;
  } = {},
): Promise<TestCollector> {
  const taken: TakenRequest[] = [];
  const waiting = [...answers];
  const serve = async (request: IncomingMessage, response: ServerResponse) => {
    const chunks: Uint8Array[] = [];
    for await (const chunk of request) chunks.push(chunk);
    const bytes = Buffer.concat(chunks);
    const isZipped = request.headers["content-encoding"] === "gzip";
    const plain = isZipped ? gunzipSync(bytes) : bytes;
    const isProtobuf = request.headers["content-type"] === "application/x-protobuf";
    const body = isProtobuf
      ? new Protobuf(OTLP_TYPES).decode("ExportTraceServiceRequest", plain)
      : JSON.parse(plain.toString());
    taken.push({ url: request.url ?? "", headers: request.headers, body });
    const [status, headers] = waiting.shift() ?? [200, {}];
    response.writeHead(status, { ...headers, "content-type": "application/json" }).end("{}");
  };
  const server = createServer((request, response) => void serve(request, response));
  await new Promise<void>((resolve) => server.listen(0, host, resolve));
  const { port } = server.address() as AddressInfo;
  return {
    taken,
    url: `http://${host}:${port}`,
    port,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
