/**
 * The config entries of the whole mesh, `proxy-defaults` and `mesh`: what may be written, and the form
 * in which they are kept.
 *
 * @module
 */

import { messageOf } from "../../base/mod.ts";
import { isObject, type JsonObject } from "../http/decode.ts";
import { objectAt, textAt, textsAt } from "../http/fields.ts";
import { Refusal } from "../http/refusal.ts";
import { extensionFaults } from "./envoy_extensions.ts";
import { normalExpose } from "./exposed.ts";
import { multiError } from "./multi_error.ts";

export function normalProxyDefaults(entry: JsonObject): JsonObject {
  checkAccessLogs(objectAt(entry, "AccessLogs"));
  const faults = extensionFaults(entry);
  if (faults.length > 0) throw new Refusal(500, multiError(faults));
  return {
    Kind: "proxy-defaults",
    Name: "global",
    Config: null,
    TransparentProxy: {},
    MeshGateway: {},
    AccessLogs: {},
    ...withoutLocality(entry),
    Expose: normalExpose(objectAt(entry, "Expose")),
  };
}

/** What only Consul Enterprise has; one that asks for nothing is not kept. */
export function withoutLocality(entry: JsonObject): JsonObject {
  const { PrioritizeByLocality: locality, ...rest } = entry;
  if (isObject(locality) && textAt(locality, "Mode") !== "") {
    // Consul's words end with a space.
    throw new Refusal(500, "Prioritize-by-locality requires Consul Enterprise ");
  }
  return rest;
}

function checkAccessLogs(logs: JsonObject): void {
  const type = textAt(logs, "Type");
  const path = textAt(logs, "Path");
  const json = textAt(logs, "JSONFormat");
  if (!["", "stdout", "stderr", "file"].includes(type)) {
    throw new Refusal(500, `invalid access log type: ${type}`);
  }
  if (type === "file" && path === "") {
    throw new Refusal(500, "path must be specified when using file type access logs");
  }
  if (type !== "file" && path !== "") {
    throw new Refusal(500, "path is only valid for file type access logs");
  }
  if (json === "") return;
  if (textAt(logs, "TextFormat") !== "") {
    throw new Refusal(500, "cannot specify both access log JSONFormat and TextFormat");
  }
  try {
    JSON.parse(json);
  } catch (error) {
    throw new Refusal(500, `invalid access log json for JSON format: ${messageOf(error)}`);
  }
}

export function normalMesh(entry: JsonObject): JsonObject {
  const { HTTP: http, ...rest } = entry;
  for (const [direction, tls] of Object.entries(objectAt(entry, "TLS"))) {
    if (!isObject(tls)) continue;
    const fault = tlsFault(tls);
    if (fault === undefined) continue;
    throw new Refusal(500, `error in ${direction.toLowerCase()} TLS configuration: ${fault}`);
  }
  return {
    ...rest,
    TransparentProxy: { MeshDestinationsOnly: false, ...objectAt(entry, "TransparentProxy") },
    ...isObject(http) ? { HTTP: normalHttp(http) } : {},
  };
}

const VERSIONS = ["TLS_AUTO", "TLSv1_0", "TLSv1_1", "TLSv1_2", "TLSv1_3"];
const SUITES =
  /^TLS_(?:ECDHE_(?:ECDSA|RSA)_WITH_(?:CHACHA20_POLY1305_SHA256|AES_128_(?:GCM_SHA256|CBC_SHA)|AES_256_(?:GCM_SHA384|CBC_SHA))|RSA_WITH_AES_(?:128_(?:GCM_SHA256|CBC_SHA)|256_(?:GCM_SHA384|CBC_SHA)))$/;

function tlsFault(tls: JsonObject): string | undefined {
  const [min, max] = [textAt(tls, "TLSMinVersion"), textAt(tls, "TLSMaxVersion")];
  const suites = textsAt(tls, "CipherSuites");
  const unknown = [min, max].find((version) => version !== "" && !VERSIONS.includes(version));
  if (unknown !== undefined) {
    return `no matching TLS version found for ${unknown}, please specify one of ${
      shownList(VERSIONS)
    }`;
  }
  // The first one means that any will do.
  if (VERSIONS.indexOf(max) > 0 && VERSIONS.indexOf(max) < VERSIONS.indexOf(min)) {
    return `configuring max version ${max} less than the configured min version ${min} is invalid`;
  }
  if (suites.length > 0 && min === "TLSv1_3") {
    return "configuring CipherSuites is only applicable to connections negotiated with TLS 1.2 " +
      `or earlier, TLSMinVersion is set to ${min}`;
  }
  const suite = suites.find((name) => !SUITES.test(name));
  return suite && `no matching Envoy TLS cipher suite found for ${suite}`;
}

const NORMALIZATION_VALUES = {
  PathWithEscapedSlashesAction: [
    "IMPLEMENTATION_SPECIFIC_DEFAULT",
    "KEEP_UNCHANGED",
    "REJECT_REQUEST",
    "UNESCAPE_AND_REDIRECT",
    "UNESCAPE_AND_FORWARD",
  ],
  HeadersWithUnderscoresAction: ["ALLOW", "REJECT_REQUEST", "DROP_HEADER"],
};

function normalHttp(http: JsonObject): JsonObject {
  const { Incoming: incoming } = http;
  return {
    SanitizeXForwardedClientCert: false,
    ...http,
    ...isObject(incoming) ? { Incoming: normalIncoming(incoming) } : {},
  };
}

function normalIncoming({ RequestNormalization: options }: JsonObject): JsonObject {
  if (!isObject(options)) return {};
  for (const [key, values] of Object.entries(NORMALIZATION_VALUES)) {
    const value = textAt(options, key);
    if (value === "" || values.includes(value)) continue;
    throw new Refusal(
      500,
      "error in HTTP incoming request normalization configuration: no matching " +
        `${key} value found for ${value}, please specify one of ${shownList(values)}`,
    );
  }
  return {
    RequestNormalization: {
      InsecureDisablePathNormalization: false,
      MergeSlashes: false,
      PathWithEscapedSlashesAction: "",
      HeadersWithUnderscoresAction: "",
      ...options,
    },
  };
}

function shownList(values: readonly string[]): string {
  return `[${values.join(", ")}]`;
}
