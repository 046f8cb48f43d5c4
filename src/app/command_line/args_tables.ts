/**
 * The flags of the commands other than `proxy`, with their help.
 *
 * @module
 */

import type { FlagGroup, FlagSpec } from "./args_flags.ts";

export const LOG_FLAGS: readonly FlagSpec[] = [
  {
    name: "log-level",
    kind: "text",
    value: "LEVEL",
    byDefault: "info",
    help: "What to log: trace, debug, info, warn or error, in any case.",
  },
  { name: "log-json", kind: "switch", help: "Write log lines as JSON objects." },
];

export const DEV_FLAGS: readonly FlagGroup[] = [{
  title: "Flags",
  flags: [
    {
      name: "http-addr",
      kind: "text",
      value: "ADDRESS",
      byDefault: "127.0.0.1:8500, or a free port where that is in use",
      help: "Where the agent's HTTP API listens, [host]:port; port 0 takes a free one.",
    },
    {
      name: "datacenter",
      kind: "text",
      value: "NAME",
      byDefault: "dc1",
      help: "Name of the datacenter it pretends to be.",
    },
    {
      name: "default-policy",
      kind: "text",
      value: "POLICY",
      byDefault: "allow",
      help: "allow or deny: what happens where no intention matches.",
    },
    {
      name: "token",
      kind: "text",
      value: "TOKEN",
      help: "Refuse requests without this ACL token, which may do everything.",
    },
    {
      name: "demo",
      kind: "switch",
      help: "Also start two services, a sidecar process for each and one intention.",
    },
    ...LOG_FLAGS,
  ],
}];

/** Of commands that ask a running proxy. */
export const PROXY_CHOICE_FLAGS: readonly FlagSpec[] = [
  {
    name: "sidecar-for",
    kind: "text",
    value: "ID",
    env: "CONNECT_SIDECAR_FOR",
    help: "The proxy that was started with this, or is registered as ID-sidecar-proxy.",
  },
  {
    name: "proxy-id",
    kind: "text",
    value: "ID",
    env: "CONNECT_PROXY_ID",
    help: "This registered proxy. Counts before -sidecar-for.",
  },
  {
    name: "config",
    kind: "text",
    value: "FILE",
    help: "The proxy that was started with this file.",
  },
  {
    name: "http-addr",
    kind: "text",
    value: "ADDRESS",
    env: "CONSUL_HTTP_ADDR",
    help: "Only a proxy of this agent, or server; for several of one id on this machine.",
  },
  {
    name: "admin",
    kind: "text",
    value: "ADDRESS",
    byDefault: "127.0.0.1:19000",
    help: "The proxy with this admin server, whichever it is.",
  },
];

export const PLUGIN_DEV_FLAGS: readonly FlagGroup[] = [{
  title: "Flags of dev",
  flags: [{
    name: "config",
    kind: "text",
    value: "JSON",
    byDefault: "{}",
    help: "The plugin's configuration, as it stands at its use.",
  }],
}];

export const WAIT_READY_FLAGS: readonly FlagGroup[] = [{
  title: "Flags",
  flags: [
    ...PROXY_CHOICE_FLAGS,
    {
      name: "timeout",
      kind: "text",
      value: "DURATION",
      byDefault: "30s",
      help: "Give up after this long.",
    },
    {
      name: "catalog",
      kind: "switch",
      help:
        "Also wait until the instance passes all its checks in Consul's catalog, where callers " +
        "look. The proxy reads it with its own token.",
    },
    {
      name: "upstreams",
      kind: "switch",
      help:
        "Also wait until every upstream can be used: it is not refused, and has an instance that " +
        "does not keep failing.",
    },
  ],
}];
