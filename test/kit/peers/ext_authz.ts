/** A gRPC authorization service: its messages, configured by a table, and a server. @module */

import { Buffer } from "node:buffer";
import { type PlainMessage, Protobuf } from "../../../src/wire/mod.ts";

/** `envoy.service.auth.v3` as its files have it, as far as these tests use it. */
export const CHECK_MESSAGES: Protobuf = new Protobuf({
  CheckRequest: { attributes: "1 Attributes" },
  Attributes: { source: "1 Peer", destination: "2 Peer", request: "4 Request" },
  Peer: { address: "1 Address", service: "2 string", principal: "4 string" },
  Address: { socketAddress: "1 SocketAddress" },
  SocketAddress: { protocol: "1 enum TCP UDP", address: "2 string", portValue: "3 uint32" },
  Request: { time: "1 Timestamp", http: "2 Http" },
  Timestamp: { seconds: "1 int64", nanos: "2 int32" },
  Http: {
    id: "1 string",
    method: "2 string",
    headers: "3 map string",
    path: "4 string",
    host: "5 string",
    scheme: "6 string",
    size: "9 int64",
    protocol: "10 string",
    body: "11 string",
    rawBody: "12 bytes",
  },
  CheckResponse: { status: "1 Status", denied: "2 Denied", ok: "3 Ok" },
  Status: { code: "1 int32", message: "2 string" },
  Denied: { status: "1 HttpStatus", headers: "2 repeated Option", body: "3 string" },
  HttpStatus: { code: "1 int32" },
  Ok: {
    headers: "2 repeated Option",
    headersToRemove: "5 repeated string",
    responseHeadersToAdd: "6 repeated Option",
    queryParametersToSet: "7 repeated Header",
  },
  Option: { header: "1 Header", append: "2 Flag", appendAction: "3 int32" },
  Header: { key: "1 string", value: "2 string" },
  Flag: { value: "1 bool" },
});

export interface CheckedRequest {
  readonly method: string;
  readonly path: string;
  readonly host: string;
  readonly scheme: string;
  readonly size: number;
  readonly body: string;
  readonly headers: Readonly<Record<string, string>>;
}

export interface AuthzServer extends AsyncDisposable {
  readonly port: number;
  /** The check requests it got, as plain messages, with their metadata. */
  readonly asked: { readonly message: PlainMessage; readonly metadata: Record<string, unknown> }[];
}

export function httpOf(message: PlainMessage): CheckedRequest {
  const { attributes } = message as unknown as {
    readonly attributes: { readonly request: { readonly http: CheckedRequest } };
  };
  return attributes.request.http;
}

/** `answer`: a `CheckResponse`. */
export async function startAuthz(
  answer: (http: CheckedRequest) => PlainMessage,
  host = "127.0.0.1",
): Promise<AuthzServer> {
  const { default: grpc } = await import("@grpc/grpc-js");
  const server = new grpc.Server();
  const asked: AuthzServer["asked"] = [];
  const encode = (type: string) => (message: PlainMessage) =>
    Buffer.from(CHECK_MESSAGES.encode(type, message));
  const decode = (type: string) => (bytes: Uint8Array) => CHECK_MESSAGES.decode(type, bytes);
  const check = {
    path: "/envoy.service.auth.v3.Authorization/Check",
    requestStream: false,
    responseStream: false,
    requestSerialize: encode("CheckRequest"),
    requestDeserialize: decode("CheckRequest"),
    responseSerialize: encode("CheckResponse"),
    responseDeserialize: decode("CheckResponse"),
  };
  server.addService({ check }, {
    check(call: Call, done: (error: null, response: PlainMessage) => void) {
      const { request: message } = call;
      asked.push({ message, metadata: call.metadata.getMap() });
      done(null, answer(httpOf(message)));
    },
  });
  const port = await new Promise<number>((resolve, reject) => {
    server.bindAsync(`${host}:0`, grpc.ServerCredentials.createInsecure(), (error, bound) => {
      if (error) reject(error);
      else resolve(bound);
    });
  });
  return {
    port,
    asked,
    [Symbol.asyncDispose]: () => {
      server.forceShutdown();
      return Promise.resolve();
    },
  };
}

interface Call {
  readonly request: PlainMessage;
  readonly metadata: { getMap(): Record<string, unknown> };
}
