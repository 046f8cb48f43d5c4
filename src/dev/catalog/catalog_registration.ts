/**
 * Registrations that go straight into the catalog (`PUT /v1/catalog/register`): what a body may say, and
 * what of it becomes of node, service and checks. Nothing is filled in, unlike on an agent.
 *
 * @module
 */

import type { NewCheck, NewNode, NewService } from "./catalog.ts";
import { isObject, type Json, type JsonObject, list, map, object } from "../http/decode.ts";
import type { Shape } from "../http/decode.ts";
import { numberAt, objectAt, textAt, textsAt } from "../http/fields.ts";
import { multiError } from "../entries/multi_error.ts";
import { Refusal } from "../http/refusal.ts";
import { isEmpty, type Status } from "./records.ts";
import { ADDRESS, PROXY } from "./registration_shape.ts";
import { upstreamFaults } from "./upstream_faults.ts";

const NAMES: Readonly<Record<string, Shape>> = {
  Namespace: "string",
  Partition: "string",
  PeerName: "string",
};

const CHECK = object({
  Node: "string",
  CheckID: "string",
  Name: "string",
  Status: "string",
  Notes: "string",
  Output: "string",
  ServiceID: "string",
  ServiceName: "string",
  ServiceTags: list("string"),
  Type: "string",
  Interval: "string",
  Timeout: "string",
  ExposedPort: "number",
  Definition: "any",
  CreateIndex: "number",
  ModifyIndex: "number",
  ...NAMES,
});

const LOCALITY = object({ Region: "string", Zone: "string" });

export const CATALOG_REGISTRATION: Shape = object({
  ID: "string",
  Node: "string",
  Address: "string",
  Datacenter: "string",
  TaggedAddresses: map("string"),
  NodeMeta: map("string"),
  SkipNodeUpdate: "bool",
  Locality: LOCALITY,
  Service: object({
    Kind: "string",
    ID: "string",
    Service: "string",
    Tags: list("string"),
    Address: "string",
    TaggedAddresses: map(ADDRESS),
    Meta: map("string"),
    Port: "number",
    SocketPath: "string",
    Weights: object({ Passing: "number", Warning: "number" }),
    EnableTagOverride: "bool",
    Proxy: PROXY,
    // A sidecar block is taken and does nothing.
    Connect: object({ Native: "bool", SidecarService: "any" }),
    Locality: LOCALITY,
    CreateIndex: "number",
    ModifyIndex: "number",
    ...NAMES,
  }),
  Check: CHECK,
  Checks: list(CHECK),
  ...NAMES,
});

export interface CatalogRegistration {
  readonly node: NewNode;
  /** A node that is there stays as it is. */
  readonly skipNodeUpdate: boolean;
  readonly service: NewService | undefined;
  /** Names and tags of services are those of the registration, to be replaced by the catalog's. */
  readonly checks: readonly NewCheck[];
}

/** A decoded body; throws what Consul says about one that makes no sense. */
export function readCatalogRegistration(
  body: JsonObject,
  datacenter: string,
): CatalogRegistration {
  const name = textAt(body, "Node");
  if (name === "") throw new Refusal(500, "Must provide node");
  const address = textAt(body, "Address");
  const skipNodeUpdate = body["SkipNodeUpdate"] === true;
  if (address === "" && !skipNodeUpdate) {
    throw new Refusal(500, "Must provide address if SkipNodeUpdate is not set");
  }
  const id = textAt(body, "ID");
  if (id !== "" && !/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(id)) {
    throw new Refusal(500, "Bad node ID: uuid string is wrong length");
  }
  const service = isObject(body["Service"]) ? readService(body["Service"]) : undefined;
  const many = Array.isArray(body["Checks"]) ? body["Checks"] as readonly Json[] : [];
  const checks = [body["Check"] ?? null, ...many].filter(isObject);
  return {
    node: {
      id,
      name,
      address,
      datacenter,
      taggedAddresses: orNull(body["TaggedAddresses"]),
      meta: orNull(body["NodeMeta"]),
      hasAgent: false,
    },
    skipNodeUpdate,
    service,
    checks: checks.map((check) => readCheck(check, name)),
  };
}

function readService(body: JsonObject): NewService {
  const name = textAt(body, "Service");
  const id = textAt(body, "ID") || name;
  if (name === "") {
    throw new Refusal(
      500,
      id === ""
        ? "service name (Service.Service) is required; both Service ID (Service.ID) and Service Name cannot be empty"
        : "Must provide service name (Service.Service) when service ID is provided",
    );
  }
  const address = textAt(body, "Address");
  if (address === "0.0.0.0" || address === "::") throw new Refusal(500, "Invalid service address");
  const kind = textAt(body, "Kind");
  const native = objectAt(body, "Connect")["Native"] === true;
  const proxy = objectAt(body, "Proxy");
  const port = numberAt(body, "Port");
  const socketPath = textAt(body, "SocketPath");
  if (kind === "connect-proxy") {
    const destination = textAt(proxy, "DestinationServiceName");
    const faults = [
      ...port === 0 && socketPath === "" ? [`Port or SocketPath must be set for a ${kind}`] : [],
      ...destination === ""
        ? ["Proxy.DestinationServiceName must be non-empty for Connect proxy services"]
        : destination === "*"
        ? ["Proxy.DestinationServiceName must not be a wildcard for Connect proxy services"]
        : [],
      ...native ? ["A Proxy cannot also be Connect Native, only typical services"] : [],
      ...upstreamFaults(proxy, ""),
    ];
    if (faults.length > 0) throw new Refusal(500, multiError(faults));
  }
  const weights = objectAt(body, "Weights");
  return {
    kind,
    id,
    name,
    tags: textsAt(body, "Tags"),
    meta: objectAt(body, "Meta"),
    port,
    address,
    socketPath,
    taggedAddresses: objectAt(body, "TaggedAddresses"),
    weights: {
      Passing: numberAt(weights, "Passing") || 1,
      Warning: "Warning" in weights ? numberAt(weights, "Warning") : 1,
    },
    enableTagOverride: body["EnableTagOverride"] === true,
    native,
    locality: isObject(body["Locality"]) ? body["Locality"] : undefined,
    proxy: isEmpty(proxy) ? undefined : proxy,
    merged: undefined,
  };
}

function readCheck(check: JsonObject, node: string): NewCheck {
  const id = textAt(check, "CheckID") || textAt(check, "Name");
  const of = textAt(check, "Node") || node;
  if (of !== node) {
    throw new Refusal(
      500,
      `Node '${of}' for check '${id}' doesn't match register request node '${node}'`,
    );
  }
  if (id === "") {
    throw new Refusal(
      500,
      `failed inserting check on node "${node}": failed health check lookup: index error: ` +
        "object is missing a value for this index",
    );
  }
  return {
    id,
    name: textAt(check, "Name"),
    // Consul keeps any text; nothing but these three is asked for here.
    status: (textAt(check, "Status") || "critical") as Status,
    notes: textAt(check, "Notes"),
    output: textAt(check, "Output"),
    serviceId: textAt(check, "ServiceID"),
    serviceName: "",
    serviceTags: [],
    type: textAt(check, "Type"),
    interval: textAt(check, "Interval"),
    timeout: textAt(check, "Timeout"),
    definition: objectAt(check, "Definition"),
  };
}

function orNull(value: Json | undefined): JsonObject | null {
  return isObject(value) ? value : null;
}
