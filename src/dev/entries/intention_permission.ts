/**
 * What of a permission Consul refuses when an intention is written. Regexes are not looked at, there
 * neither.
 *
 * @module
 */

import { isObject, type JsonObject } from "../http/decode.ts";
import { textAt, textsAt } from "../http/fields.ts";
import { Refusal } from "../http/refusal.ts";

const PATHS = ["PathExact", "PathPrefix", "PathRegex"];
const MATCHES = ["Exact", "Regex", "Prefix", "Suffix", "Contains"];
const METHODS = "GET HEAD POST PUT PATCH DELETE CONNECT OPTIONS TRACE".split(" ");

/** `at`: `Sources[0].Permissions[1]`. */
export function checkPermission(permission: JsonObject, at: string): void {
  if (!["allow", "deny"].includes(textAt(permission, "Action"))) {
    throw refusal(`${at}.Action must be set to 'allow' or 'deny'`);
  }
  const http = permission["HTTP"];
  if (!isObject(http)) throw refusal(`${at}.HTTP is required`);
  const paths = PATHS.filter((kind) => textAt(http, kind) !== "");
  for (const kind of paths) {
    const path = textAt(http, kind);
    if (kind !== "PathRegex" && !path.startsWith("/")) {
      throw refusal(`${at}.HTTP.${kind} doesn't start with '/': ${JSON.stringify(path)}`);
    }
  }
  if (paths.length > 1) {
    throw refusal(
      `${at}.HTTP should only contain at most one of PathExact, PathPrefix, or PathRegex`,
    );
  }
  const headers = Array.isArray(http["Header"]) ? http["Header"].filter(isObject) : [];
  for (const [index, header] of headers.entries()) {
    checkHeader(header, `${at}.HTTP.Header[${index}]`);
  }
  const methods = textsAt(http, "Methods").map((method) => method.toUpperCase());
  for (const [index, method] of methods.entries()) {
    const fault = !METHODS.includes(method)
      ? `an invalid method ${JSON.stringify(method)}`
      : methods.indexOf(method) < index
      ? `${JSON.stringify(method)} more than once`
      : "";
    if (fault !== "") throw refusal(`${at}.HTTP.Methods contains ${fault}`);
  }
  if (paths.length + headers.length + methods.length === 0) {
    throw refusal(`${at}.HTTP should not be empty`);
  }
}

function checkHeader(header: JsonObject, at: string): void {
  if (textAt(header, "Name") === "") throw refusal(`${at} missing required Name field`);
  const isPresent = header["Present"] === true;
  const kinds = MATCHES.filter((kind) => textAt(header, kind) !== "");
  if (kinds.length + (isPresent ? 1 : 0) !== 1) {
    throw refusal(
      `${at} should only contain one of Present, Exact, Prefix, Suffix, Contains, or Regex`,
    );
  }
  if (header["IgnoreCase"] === true && (isPresent || kinds[0] === "Regex")) {
    throw refusal(
      `${at} should set one of Exact, Prefix, Suffix, or Contains when using IgnoreCase`,
    );
  }
}

function refusal(text: string): Refusal {
  return new Refusal(500, text);
}
