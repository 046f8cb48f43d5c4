/**
 * The gRPC services that a server has for proxies: features, bootstrap parameters, the list of servers,
 * roots and signing, login and logout, with the answers that Consul 1.22.7 gives.
 *
 * @module
 */

import type { Random } from "../../../../../src/base/mod.ts";
import { ROOTS } from "../../../../../src/dev/store.ts";
import { mergeProxy } from "../../../../../src/dev/entries/central_config.ts";
import {
  isObject,
  type JsonObject,
  type JsonValue,
  objectAt,
  objectsAt,
  textAt,
} from "../../../../../src/dev/json.ts";
import { HttpRefusal } from "../../../../../src/dev/refusal.ts";
import type { World } from "../../../../../src/dev/world.ts";
import { GRPC_STATUS } from "../../../../../src/http/mod.ts";
import type { PlainMessage } from "../../../../../src/wire/mod.ts";
import { type Acl, type Authorizer, TOKEN_UNKNOWN } from "../../acl/acl.ts";
import { type AuthMethods, LoginRefusal } from "../../acl/auth_methods.ts";
import { GrpcRefusal, type ServedCall, type ServedMethod } from "./grpc_server.ts";
import { MESSAGES } from "./messages.ts";
import { type SigningPace, signRequest } from "./sign.ts";

export interface ListedServer {
  readonly id: string;
  readonly host: string;
}

/** The server whose services these are. */
interface ServingServer {
  readonly world: World;
  readonly acl: Acl;
  readonly methods: AuthMethods;
  readonly random: Random;
  readonly pace: SigningPace;
  /** Whether a server signs and writes. */
  readonly hasLeader: boolean;
  /** Servers that count as ready. */
  listed(): readonly ListedServer[];
  /** `fn` is called whenever that list has changed. Returns how to stop. */
  onListed(fn: () => void): () => void;
}

const PACKAGE = "/hashicorp.consul.";
const FEATURES = [
  { feature_name: "WATCH_SERVERS", supported: true },
  { feature_name: "EDGE_CERTIFICATE_MANAGEMENT", supported: true },
  { feature_name: "ENVOY_BOOTSTRAP_CONFIGURATION", supported: true },
  { feature_name: "FIPS", supported: false },
];

export function methodsOf(server: ServingServer): ReadonlyMap<string, ServedMethod> {
  const features = unary("Empty", "FeaturesResponse", (_request, call) => {
    requireToken(server, call);
    return { supported_dataplane_features: FEATURES };
  });
  const bootstrap = unary(
    "BootstrapRequest",
    "BootstrapResponse",
    (request, call) => bootstrapParams(server, request, call),
  );
  const sign = unary("SignRequest", "SignResponse", async (request, call) => {
    const authorizer = authorizerOf(server, call);
    if (!server.hasLeader) throw noLeader();
    const pem = String(request["csr"] ?? "");
    await server.pace.turn();
    return { cert_pem: signRequest(pem, server.world, authorizer) };
  });
  const login = unary("LoginRequest", "LoginResponse", async (request) => {
    if (!server.hasLeader) throw noLeader();
    const { accessorId, secretId } = await server.methods.login({
      method: String(request["auth_method"] ?? ""),
      bearerToken: String(request["bearer_token"] ?? ""),
      meta: (request["meta"] ?? {}) as JsonObject,
    });
    return { token: { accessor_id: accessorId, secret_id: secretId } };
  });
  const logout = unary("LogoutRequest", "Empty", (request) => {
    const token = String(request["token"] ?? "");
    if (token === "") throw new GrpcRefusal(GRPC_STATUS.invalidArgument, "token is required");
    if (!server.hasLeader) throw noLeader();
    server.acl.logout(token);
    return {};
  });
  return new Map([
    [`${PACKAGE}dataplane.DataplaneService/GetSupportedDataplaneFeatures`, features],
    [`${PACKAGE}dataplane.DataplaneService/GetEnvoyBootstrapParams`, bootstrap],
    [
      `${PACKAGE}serverdiscovery.ServerDiscoveryService/WatchServers`,
      (_request, call) => watchServers(server, call),
    ],
    [
      `${PACKAGE}connectca.ConnectCAService/WatchRoots`,
      (_request, call) => watchRoots(server, call),
    ],
    [`${PACKAGE}connectca.ConnectCAService/Sign`, sign],
    [`${PACKAGE}acl.ACLService/Login`, login],
    [`${PACKAGE}acl.ACLService/Logout`, logout],
  ]);
}

function unary(
  request: string,
  response: string,
  answer: (request: PlainMessage, call: ServedCall) => PlainMessage | Promise<PlainMessage>,
): ServedMethod {
  return async (bytes, call) => {
    try {
      call.send(MESSAGES.encode(response, await answer(MESSAGES.decode(request, bytes), call)));
    } catch (error) {
      throw refusalOf(error);
    }
    call.end();
  };
}

function watchServers(server: ServingServer, call: ServedCall): void {
  requireToken(server, call);
  const send = () => {
    const servers = server.listed()
      .map((listed) => ({ listed, at: server.random() }))
      .sort((a, b) => a.at - b.at)
      .map(({ listed }) => ({ id: listed.id, address: listed.host, version: "1.22.7" }));
    call.send(MESSAGES.encode("WatchServersResponse", { servers }));
  };
  send();
  call.onOver(server.onListed(send));
  endWithToken(server, call);
}

function watchRoots(server: ServingServer, call: ServedCall): void {
  requireToken(server, call);
  const { store, ca } = server.world;
  const over = new AbortController();
  call.onOver(() => over.abort());
  const follow = async () => {
    while (!over.signal.aborted) {
      call.send(MESSAGES.encode("WatchRootsResponse", rootsMessage(ca.rootsJson())));
      await store.change([ROOTS], over.signal);
    }
  };
  void follow();
  endWithToken(server, call);
}

/** A stream lasts no longer than the token that opened it. */
function endWithToken(server: ServingServer, call: ServedCall): void {
  const stop = server.acl.onRemoved(() => {
    try {
      requireToken(server, call);
    } catch (error) {
      if (!(error instanceof GrpcRefusal)) throw error;
      call.end(error);
    }
  });
  call.onOver(stop);
}

function rootsMessage(roots: JsonObject): PlainMessage {
  return {
    active_root_id: roots["ActiveRootID"],
    trust_domain: roots["TrustDomain"],
    roots: objectsAt(roots, "Roots").map((root) => ({
      id: root["ID"],
      name: root["Name"],
      serial_number: root["SerialNumber"],
      signing_key_id: root["SigningKeyID"],
      root_cert: root["RootCert"],
      intermediate_certs: root["IntermediateCerts"] ?? [],
      active: root["Active"],
      // Year 1, as Go's empty time is written.
      rotated_out_at: { seconds: -62135596800 },
    })),
  };
}

function bootstrapParams(
  server: ServingServer,
  request: PlainMessage,
  call: ServedCall,
): PlainMessage {
  const { catalog, config, datacenter } = server.world;
  const authorizer = authorizerOf(server, call);
  const text = (key: string) => String(request[key] ?? "");
  const proxyId = text("proxy_id") || text("service_id");
  if (text("node_name") === "" && text("node_id") === "") {
    throw new GrpcRefusal(
      GRPC_STATUS.invalidArgument,
      "Node ID or name required to lookup the service",
    );
  }
  if (text("node_id") !== "" && !/^[0-9a-f-]{36}$/i.test(text("node_id"))) {
    throw new GrpcRefusal(GRPC_STATUS.internal, "Failure looking up service");
  }
  const node = text("node_id") !== ""
    ? [...catalog.nodes.values()].find(({ record }) => record.id === text("node_id").toLowerCase())
    : catalog.nodes.get(text("node_name").toLowerCase());
  if (!node) throw new GrpcRefusal(GRPC_STATUS.notFound, "node not found");
  const service = node.service(proxyId);
  if (!service) throw new GrpcRefusal(GRPC_STATUS.notFound, "Service not found");
  authorizer.require("service", "read", service.name);
  const own = service.merged ?? service.proxy;
  const proxy = own && mergeProxy(own, (kind, name) => config.find(kind, name));
  const identity = textAt(proxy ?? {}, "DestinationServiceName") || service.name;
  return {
    service: identity,
    identity,
    namespace: "default",
    partition: "default",
    datacenter,
    config: struct(objectAt(proxy ?? {}, "Config")),
    node_name: node.record.name,
  };
}

function struct(object: JsonObject): PlainMessage {
  const fields = Object.entries(object).map(([key, value]) => [key, structValue(value)]);
  return { fields: Object.fromEntries(fields) };
}

function structValue(value: JsonValue): PlainMessage {
  if (value === null) return { null_value: "NULL_VALUE" };
  if (typeof value === "number") return { number_value: value };
  if (typeof value === "string") return { string_value: value };
  if (typeof value === "boolean") return { bool_value: value };
  if (isObject(value)) return { struct_value: struct(value) };
  return { list_value: { values: (value as readonly JsonValue[]).map(structValue) } };
}

/** Any known token will do; with ACLs a call without one is refused. */
function requireToken(server: ServingServer, call: ServedCall): void {
  const authorizer = authorizerOf(server, call);
  if (!server.acl.enabled || authorizer.hasToken) return;
  throw new GrpcRefusal(
    GRPC_STATUS.unauthenticated,
    "An ACL token must be provided (via the `x-consul-token` metadata field) to call this endpoint",
  );
}

/** The rights of the sender; its refusals become gRPC statuses. */
function authorizerOf(server: ServingServer, call: ServedCall): Authorizer {
  const authorizer = server.acl.authorizer(call.token);
  if (!authorizer) throw new GrpcRefusal(GRPC_STATUS.unauthenticated, TOKEN_UNKNOWN);
  return authorizer;
}

const LOGIN_CODES = {
  no_method: GRPC_STATUS.invalidArgument,
  bearer_token: GRPC_STATUS.unauthenticated,
  unbound: GRPC_STATUS.permissionDenied,
} as const;

function refusalOf(error: unknown): unknown {
  if (error instanceof LoginRefusal) {
    return new GrpcRefusal(LOGIN_CODES[error.kind], error.message);
  }
  if (!(error instanceof HttpRefusal)) return error;
  const code = error.status === 403 ? GRPC_STATUS.permissionDenied : GRPC_STATUS.internal;
  return new GrpcRefusal(code, error.message);
}

function noLeader(): GrpcRefusal {
  return new GrpcRefusal(GRPC_STATUS.unavailable, "No cluster leader");
}
