/** gRPC calls to a server, with the checks that tests make of the answers. @module */

import { seededRandom, systemClock } from "../../../src/base/mod.ts";
import { MESSAGES } from "../../kit/dev_agent/servers/grpc/messages.ts";
import { type GrpcCall, GrpcChannel, type MessageTypes } from "../../../src/grpc/mod.ts";
import { runtimeEngine } from "../../../src/net/mod.ts";
import type { PlainMessage } from "../../../src/wire/mod.ts";

/** A server that the contract is run against. */
export interface ServerUnderTest {
  readonly host: string;
  readonly httpPort: number;
  readonly grpcPort: number;
  /** May do everything; `""` without ACLs. */
  readonly managementToken: string;
}

interface GrpcAnswer {
  /** 0: in order. */
  readonly code: number;
  readonly details: string;
  readonly message: PlainMessage;
}

const METHODS = {
  features: [
    "dataplane.DataplaneService/GetSupportedDataplaneFeatures",
    "Empty",
    "FeaturesResponse",
  ],
  bootstrap: [
    "dataplane.DataplaneService/GetEnvoyBootstrapParams",
    "BootstrapRequest",
    "BootstrapResponse",
  ],
  servers: [
    "serverdiscovery.ServerDiscoveryService/WatchServers",
    "WatchServersRequest",
    "WatchServersResponse",
  ],
  roots: ["connectca.ConnectCAService/WatchRoots", "Empty", "WatchRootsResponse"],
  login: ["acl.ACLService/Login", "LoginRequest", "LoginResponse"],
  logout: ["acl.ACLService/Logout", "LogoutRequest", "Empty"],
  sign: ["connectca.ConnectCAService/Sign", "SignRequest", "SignResponse"],
} as const;

type MethodName = keyof typeof METHODS;

export class GrpcClient {
  readonly #server: ServerUnderTest;

  constructor(server: ServerUnderTest) {
    this.#server = server;
  }

  /** One answer; of a stream the first message. */
  async ask(
    method: MethodName,
    request: PlainMessage = {},
    token: string = this.#server.managementToken,
  ): Promise<GrpcAnswer> {
    const stream = this.follow(method, request, token);
    const answer = await stream.next();
    stream.close();
    return answer;
  }

  /** A stream, message by message; its end is the last of them. */
  follow(
    method: MethodName,
    request: PlainMessage = {},
    token: string = this.#server.managementToken,
  ): Followed {
    const { host, grpcPort } = this.#server;
    const channel = new GrpcChannel({
      engine: runtimeEngine(),
      clock: systemClock,
      random: seededRandom(1),
      addresses: [{ kind: "tcp", host, port: grpcPort }],
      tls: null,
      metadata: token === "" ? {} : { "x-consul-token": token },
      keepAliveMs: 30_000,
      keepAliveTimeoutMs: 30_000,
    });
    return new Followed(channel, method, request);
  }
}

export class Followed {
  readonly #channel: GrpcChannel;
  readonly #call: GrpcCall<PlainMessage>;
  readonly #come: GrpcAnswer[] = [];
  #wanted: ((answer: GrpcAnswer) => void) | undefined;

  constructor(channel: GrpcChannel, method: MethodName, request: PlainMessage) {
    const [path, asked, answered] = METHODS[method];
    const types: MessageTypes<PlainMessage, PlainMessage> = {
      encode: (message) => MESSAGES.encode(asked, message),
      decode: (bytes) => MESSAGES.decode(answered, bytes),
    };
    this.#channel = channel;
    this.#call = channel.open(`/hashicorp.consul.${path}`, types, {
      onMessage: (message) => this.#take({ code: 0, details: "", message }),
      onEnd: ({ code, details }) => this.#take({ code, details, message: {} }),
    });
    this.#call.send(request);
    this.#call.halfClose();
  }

  /** The next message or the end. */
  next(): Promise<GrpcAnswer> {
    const come = this.#come.shift();
    if (come) return Promise.resolve(come);
    return new Promise((resolve) => this.#wanted = resolve);
  }

  close(): void {
    this.#call.close();
    this.#channel.close();
  }

  #take(answer: GrpcAnswer): void {
    const wanted = this.#wanted;
    this.#wanted = undefined;
    if (wanted) wanted(answer);
    else this.#come.push(answer);
  }
}
