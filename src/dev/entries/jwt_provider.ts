/**
 * The `jwt-provider` config entry: what may be written, the form in which it is kept, and who refers to it.
 *
 * @module
 */

import { dropEmpty } from "../catalog/records.ts";
import { isObject, type Json, type JsonObject } from "../http/decode.ts";
import { numberAt, objectAt, textAt } from "../http/fields.ts";
import { withNs } from "../http/go_duration.ts";
import { Refusal } from "../http/refusal.ts";
import { permissionsOf, sourcesOf } from "./intention_entry.ts";
import { multiError } from "./multi_error.ts";

const DEFAULT_SKEW_SECONDS = 30;
const PLACES = ["Header", "QueryParam", "Cookie"];

export function normalJwtProvider(entry: JsonObject): JsonObject {
  const keys = entry["JSONWebKeySet"];
  if (!isObject(keys)) throw new Refusal(500, "JSONWebKeySet is required");
  const local = keys["Local"];
  const remote = keys["Remote"];
  if (isObject(local) === isObject(remote)) {
    throw new Refusal(500, "must specify exactly one of Local or Remote JSON Web key set");
  }
  if (isObject(local)) checkLocal(local);
  else if (isObject(remote) && textAt(remote, "URI") === "") {
    throw new Refusal(500, "Remote JWKS URI is required");
  }
  const locations = (listAt(entry, "Locations")).filter(isObject);
  if (
    locations.some((location) => PLACES.filter((place) => isObject(location[place])).length !== 1)
  ) {
    const fault = "must set exactly one of: JWT location header, query param or cookie";
    throw new Refusal(500, multiError([fault]));
  }
  const { Forwarding: forwarding } = entry;
  return {
    ...entry,
    JSONWebKeySet: isObject(remote) ? { Remote: normalRemote(remote) } : { Local: local ?? null },
    ...(isObject(forwarding) && {
      Forwarding: { PadForwardPayloadHeader: false, ...forwarding },
    }),
    ClockSkewSeconds: numberAt(entry, "ClockSkewSeconds") || DEFAULT_SKEW_SECONDS,
  };
}

function checkLocal(local: JsonObject): void {
  const jwks = textAt(local, "JWKS");
  if ((jwks === "") === (textAt(local, "Filename") === "")) {
    throw new Refusal(500, "must specify exactly one of String or filename for local keyset");
  }
  if (jwks.length % 4 !== 0 || !/^[A-Za-z0-9+/]*={0,2}$/.test(jwks)) {
    throw new Refusal(500, "JWKS must be valid base64 encoded string");
  }
}

function normalRemote(remote: JsonObject): JsonObject {
  const { RetryPolicy: retry, JWKSCluster: cluster } = remote;
  const pauses = ["BaseInterval", "MaxInterval"];
  return {
    ...dropEmpty(withNs(remote, ["CacheDuration"]), Object.keys(remote)),
    ...(isObject(retry) && {
      RetryPolicy: {
        ...retry,
        ...(isObject(retry["RetryPolicyBackOff"]) && {
          RetryPolicyBackOff: withNs(objectAt(retry, "RetryPolicyBackOff"), pauses),
        }),
      },
    }),
    ...(isObject(cluster) && { JWKSCluster: withNs(cluster, ["ConnectTimeout"]) }),
  };
}

/** Names that an intention entry refers to, in the order in which they stand there. */
export function providersIn(intentions: JsonObject): readonly string[] {
  const demands = [
    intentions["JWT"],
    ...sourcesOf(intentions).flatMap(permissionsOf).map((permission) => permission["JWT"]),
  ];
  return demands.filter(isObject).flatMap((demand) =>
    listAt(demand, "Providers").filter(isObject).map((provider) => textAt(provider, "Name"))
  );
}

function listAt(object: JsonObject, key: string): readonly Json[] {
  const value = object[key];
  return Array.isArray(value) ? value as readonly Json[] : [];
}
