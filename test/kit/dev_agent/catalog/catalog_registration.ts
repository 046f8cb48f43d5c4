/**
 * Registrations that go straight into the catalog (`PUT /v1/catalog/register`): from a body to node, service
 * and checks. Nothing is filled in, unlike on an agent.
 *
 * @module
 */

import type {
  CheckContent,
  NodeFacts,
  ServiceContent,
  Status,
} from "../../../../src/dev/catalog/records.ts";
import {
  isEmpty,
  isObject,
  type JsonObject,
  numberAt,
  objectAt,
  objectsAt,
  textAt,
  textsAt,
} from "../../../../src/dev/json.ts";
import { HttpRefusal } from "../../../../src/dev/refusal.ts";

export interface CatalogRegistration {
  readonly node: NodeFacts;
  /** A node that is there stays as it is. */
  readonly skipNodeUpdate: boolean;
  readonly service: ServiceContent | undefined;
  /** Checks without the name and tags of their service, which the catalog has. */
  readonly checks: readonly CheckContent[];
}

export function readCatalogRegistration(
  body: JsonObject,
  datacenter: string,
): CatalogRegistration {
  const name = textAt(body, "Node");
  const address = textAt(body, "Address");
  const skipNodeUpdate = body["SkipNodeUpdate"] === true;
  if (name === "") throw new HttpRefusal(500, "Must provide node");
  if (address === "" && !skipNodeUpdate) {
    throw new HttpRefusal(500, "Must provide address if SkipNodeUpdate is not set");
  }
  const { TaggedAddresses: tagged, NodeMeta: meta, Service: service } = body;
  const checks = [body["Check"], ...objectsAt(body, "Checks")].filter(isObject);
  return {
    node: {
      id: textAt(body, "ID"),
      name,
      address,
      datacenter,
      taggedAddresses: isObject(tagged) ? tagged : null,
      meta: isObject(meta) ? meta : null,
      hasAgent: false,
    },
    skipNodeUpdate,
    service: isObject(service) ? readService(service) : undefined,
    checks: checks.map(readCheck),
  };
}

function readService(body: JsonObject): ServiceContent {
  const name = textAt(body, "Service");
  if (name === "") throw new HttpRefusal(500, "Must provide service name (Service.Service)");
  const id = textAt(body, "ID") || name;
  const proxy = objectAt(body, "Proxy");
  const weights = objectAt(body, "Weights");
  const definition = {
    Kind: textAt(body, "Kind"),
    ID: id,
    Service: name,
    Tags: textsAt(body, "Tags"),
    Address: textAt(body, "Address"),
    TaggedAddresses: objectAt(body, "TaggedAddresses"),
    Meta: objectAt(body, "Meta"),
    Port: numberAt(body, "Port"),
    SocketPath: textAt(body, "SocketPath"),
    Weights: {
      Passing: numberAt(weights, "Passing") || 1,
      Warning: "Warning" in weights ? numberAt(weights, "Warning") : 1,
    },
    EnableTagOverride: body["EnableTagOverride"] === true,
    Connect: objectAt(body, "Connect")["Native"] === true ? { Native: true } : {},
    Locality: objectAt(body, "Locality"),
  };
  return {
    id,
    name,
    kind: textAt(body, "Kind"),
    definition,
    proxy: isEmpty(proxy) ? undefined : proxy,
    merged: undefined,
  };
}

function readCheck(check: JsonObject): CheckContent {
  return {
    id: textAt(check, "CheckID") || textAt(check, "Name"),
    // Consul keeps any text; tests write only these three.
    status: (textAt(check, "Status") || "critical") as Status,
    output: textAt(check, "Output"),
    serviceId: textAt(check, "ServiceID"),
    facts: {
      Name: textAt(check, "Name"),
      Notes: textAt(check, "Notes"),
      Type: textAt(check, "Type"),
      Interval: textAt(check, "Interval"),
      Timeout: textAt(check, "Timeout"),
      Definition: objectAt(check, "Definition"),
    },
  };
}
