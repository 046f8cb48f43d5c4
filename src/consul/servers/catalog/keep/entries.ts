/**
 * The entries that `-register` writes into the catalog beside servers: the application, its sidecar, and
 * two checks for each. One shows whether the application answers. The other is of type `session`: the
 * servers turn it critical when the session of that name ends, and a session ends when it is not renewed.
 * So a proxy that died disappears from the healthy instances.
 *
 * @module
 */

import { isDeepStrictEqual } from "node:util";
import * as v from "valibot";
import type { Address } from "../../../../base/mod.ts";
import type { RegisterRequest } from "../../../model/consul.ts";
import { list, object, port, readReply, text } from "../../../replies/schema.ts";
import type { UpstreamDeclaration } from "../../../model/values.ts";
import type { PollAnswer, PollQuestion, PollRequest } from "../../../watch/blocking_query.ts";
import { cursorOf, pollCall } from "../../../replies/questions.ts";
import {
  filterText,
  type NodeCatalog,
  nodeName,
  nodeServicesPath,
  readNodeServices,
} from "../node_catalog.ts";
import type { LocalHealth } from "./own_health.ts";

const TIMEOUT_MS = 10_000;

type Body = Readonly<Record<string, unknown>>;

/** `""`: callers use the node's. */
export function addressOf({ registration: { bind }, nodeAddress }: RegisterRequest): string {
  return bind.host && !isWildcard(bind.host) ? bind.host : nodeAddress;
}

/** The two services, the application first: no sidecar is registered before its service. */
export function servicesOf(request: RegisterRequest): readonly Body[] {
  const { registration, applicationId } = request;
  const { id, service, proxyService, bind, local, upstreams } = registration;
  const address = addressOf(request);
  return [
    { ID: applicationId, Service: service, ...placeOf(local, address) },
    {
      Kind: "connect-proxy",
      ID: id,
      // Without a name of its own: the one that a service identity may write.
      Service: proxyService ?? `${service}-sidecar-proxy`,
      Address: address,
      Port: bind.port,
      Proxy: {
        DestinationServiceName: service,
        DestinationServiceID: applicationId,
        ...(local.kind === "unix"
          ? { LocalServiceSocketPath: local.path }
          : { LocalServiceAddress: local.host, LocalServicePort: local.port }),
        Upstreams: upstreams.map(upstreamOf),
      },
    },
  ];
}

function placeOf(local: Address, address: string): Body {
  if (local.kind === "unix") return { Address: address, SocketPath: local.path, Port: 0 };
  const isOwn = isWildcard(local.host) || /^(127\.|::1$|localhost$)/i.test(local.host);
  return { Address: isOwn ? address : local.host, Port: local.port };
}

function upstreamOf({ kind, name, datacenter, bind }: UpstreamDeclaration): Body {
  return {
    DestinationType: kind,
    DestinationName: name,
    ...(datacenter && { Datacenter: datacenter }),
    ...(bind?.kind === "tcp" && { LocalBindAddress: bind.host, LocalBindPort: bind.port }),
    ...(bind?.kind === "unix" && { LocalBindSocketPath: bind.path }),
  };
}

function isWildcard(host: string): boolean {
  return host === "0.0.0.0" || host === "::";
}

export function healthCheckId(serviceId: string): string {
  return `${serviceId}:application`;
}

export function lifeCheckId(serviceId: string): string {
  return `${serviceId}:alive`;
}

export function healthCheckOf(serviceId: string, { status, output }: LocalHealth): Body {
  return {
    CheckID: healthCheckId(serviceId),
    Name: "the application answers",
    ServiceID: serviceId,
    Status: status,
    Output: output,
  };
}

/** Only for a session that is known to be in force: the check of another would never end. */
export function lifeCheckOf(serviceId: string, sessionName: string): Body {
  return {
    CheckID: lifeCheckId(serviceId),
    Name: "Postern's sign of life",
    ServiceID: serviceId,
    Type: "session",
    Status: "passing",
    Definition: { SessionName: sessionName },
  };
}

export interface KeptEntries {
  /** By id, with only the fields that we write. */
  readonly services: ReadonlyMap<string, Body>;
  readonly checks: ReadonlyMap<string, KeptCheck>;
}

interface KeptCheck {
  readonly status: string;
  /** `""`: no check of type `session`. */
  readonly sessionName: string;
}

const ServicesJson = list(object({
  Kind: text,
  ID: text,
  Service: text,
  Address: text,
  Port: port,
  SocketPath: text,
  Proxy: v.nullish(object({
    DestinationServiceName: text,
    DestinationServiceID: text,
    LocalServiceAddress: text,
    LocalServicePort: port,
    LocalServiceSocketPath: text,
    Upstreams: list(object({
      DestinationType: text,
      DestinationName: text,
      Datacenter: text,
      LocalBindAddress: text,
      LocalBindPort: port,
      LocalBindSocketPath: text,
    })),
  })),
}));

const ChecksJson = list(object({
  CheckID: text,
  Status: text,
  Type: text,
  Definition: v.nullish(object({ SessionName: text })),
}));
type CheckRow = NonNullable<v.InferOutput<typeof ChecksJson>>[number];

/**
 * `services`: of `/v1/catalog/node-services/NODE` without `merge-central-config`; `checks`: of
 * `/v1/health/node/NODE`.
 */
export function readKept(services: unknown, checks: unknown): KeptEntries {
  const keptOf = ({ Status: status, Type, Definition }: CheckRow): KeptCheck => {
    return { status, sessionName: Type === "session" ? Definition?.SessionName ?? "" : "" };
  };
  const rows = readReply(ChecksJson, checks, "the checks of the node");
  return {
    services: new Map(readServices(services).map((service) => [service.ID, service])),
    checks: new Map(rows.map((check) => [check.CheckID, keptOf(check)])),
  };
}

function readServices(services: unknown): readonly (Body & { readonly ID: string })[] {
  const rows = readReply(ServicesJson, services, "the services of the node");
  // Consul gives every service a proxy; that of an application is empty.
  return rows.map((row) => row.Kind ? row : { ...row, Proxy: undefined });
}

/** The name of another process's session that is in force for our entries. */
export function strangerIn({ checks }: KeptEntries, own: OwnServices): string | undefined {
  for (const id of own.ids) {
    const check = checks.get(lifeCheckId(id));
    if (check?.status === "passing" && check.sessionName && !own.sessions.has(check.sessionName)) {
      return check.sessionName;
    }
  }
  return undefined;
}

interface OwnServices {
  /** The ids of both services. */
  readonly ids: readonly string[];
  /** Names of every session that this process has had. */
  readonly sessions: ReadonlySet<string>;
}

/** Whether both services are there as written, with the checks of `sessionName` (`""`: none). */
export function isWhole(kept: KeptEntries, request: RegisterRequest, sessionName: string): boolean {
  return readServices(servicesOf(request)).every((wanted) =>
    isDeepStrictEqual(kept.services.get(wanted.ID), wanted) &&
    kept.checks.has(healthCheckId(wanted.ID)) &&
    (sessionName === "" || isAlive(kept.checks.get(lifeCheckId(wanted.ID)), sessionName))
  );
}

function isAlive(check: KeptCheck | undefined, sessionName: string): boolean {
  return check?.status === "passing" && check.sessionName === sessionName;
}

type NodeClient = Pick<NodeCatalog, "client" | "node">;

/**
 * Waits for changes of the checks, which go with their service; a service that was changed otherwise is
 * noticed when the wait ends, within a minute.
 */
export function ownEntriesQuestion(
  catalog: NodeClient,
  ids: readonly string[],
): PollQuestion<KeptEntries> {
  return {
    name: `own entries ${ids.join(" ")}`,
    resource: "own_entries",
    isRare: true,
    poll: (request) => readEntries(catalog, ids, request),
  };
}

/** Reads the entries from the leader. */
export async function readOwnEntries(
  catalog: NodeClient,
  ids: readonly string[],
  options: { readonly signal: AbortSignal },
): Promise<KeptEntries> {
  const request = { waitMs: 0, timeoutMs: TIMEOUT_MS, signal: options.signal };
  return (await readEntries(catalog, ids, request)).value;
}

async function readEntries(
  { client, node }: NodeClient,
  ids: readonly string[],
  request: PollRequest<KeptEntries>,
): Promise<PollAnswer<KeptEntries>> {
  const { cursor: _waited, ...now } = request;
  const filterOf = (field: string) => ids.map((id) => `${field} == ${filterText(id)}`).join(" or ");
  const checks = await pollCall(client, request, {
    resource: "own_entries",
    what: `read the checks on ${nodeName(node)}`,
    path: `/v1/health/node/${encodeURIComponent(node)}`,
    query: { filter: filterOf("ServiceID") },
    isLocal: true,
  });
  const services = await pollCall(client, now, {
    resource: "own_entries",
    what: `read the services on ${nodeName(node)}`,
    path: nodeServicesPath(node),
    query: { filter: filterOf("ID") },
    isLocal: true,
  });
  const value = readKept(readNodeServices(services.json, node).services, checks.json);
  return { value, ...cursorOf(checks) };
}
