/** The flags of the commands other than `proxy` and `dataplane`. @module */

import { readFlagTable } from "../flags/parse_flags.ts";
import { LOG_FLAGS } from "../flags/proxy_flags.ts";

export const DEV_FLAGS = readFlagTable(`
Flags
  -http-addr ADDRESS (default: 127.0.0.1:8500, or a free port where that is in use)
      Where the agent's HTTP API listens, [host]:port; port 0 takes a free one.
  -datacenter NAME (default: dc1)
      Name of the datacenter it pretends to be.
  -default-policy allow|deny (default: allow)
      What happens where no intention matches.
  -token TOKEN
      Refuse requests without this ACL token, which may do everything.
  -demo
      Also start two services, a sidecar process for each and one intention.
${LOG_FLAGS}
`);

/** Rows for the commands that ask a running proxy. */
const proxyChoice = (byDefault: string) =>
  `\
  -sidecar-for ID [$CONNECT_SIDECAR_FOR]
      The proxy that was started with this, or is registered as ID-sidecar-proxy.
  -proxy-id ID [$CONNECT_PROXY_ID]
      This registered proxy. Counts before -sidecar-for.
  -config FILE
      The proxy that was started with this file.
  -http-addr ADDRESS [$CONSUL_HTTP_ADDR]
      Only a proxy of this agent, or server; for several of one id on this machine.
  -admin ADDRESS (default: ${byDefault})
      The proxy with this admin server, whichever it is.`;

const THE_PROXY = proxyChoice("the only proxy that runs on this machine");

export const WAIT_READY_FLAGS = readFlagTable(`
Flags
${proxyChoice("127.0.0.1:19000")}
  -timeout DURATION (default: 30s)
      Give up after this long.
  -catalog
      Also wait until the instance passes all its checks in Consul's catalog, where callers look.
      The proxy reads it with its own token.
  -upstreams
      Also wait until every upstream can be used: it is not refused, and has an instance that does
      not keep failing.
`);

export const UPGRADE_FLAGS = readFlagTable(`
Flags
${THE_PROXY}
  -timeout DURATION (default: 70s)
      Give up after this long. The proxy itself waits 65 s for the new process.
`);

export const EXPLAIN_FLAGS = readFlagTable(`
Flags
  -H HEADER ...
      A header of the request, 'name: value'; may be repeated.
  -inbound
      A request to the service of this proxy, not to an upstream.
  -source SERVICE (default: a caller without a certificate)
      The caller, with -inbound: a service of the mesh, or the URI of a certificate.
  -no-connect
      Do not connect to instances and the application to see whether they are there.
  -json
      Write the answer as JSON.
The proxy (one of these)
${THE_PROXY}
`);

/** Rows for the commands that show several running proxies. */
const SIDECARS_CHOICE = `\
  -sidecar-for ID ...
      Only the proxy that was started with this, or is registered as ID-sidecar-proxy.
  -proxy-id ID ...
      Only this registered proxy.
  -config FILE ...
      Only the proxy that was started with this file.
  -admin ADDRESS ... (default: those that answer on ports 19000 to 19100 of 127.0.0.1)
      The proxies with these admin servers, [host]:port; several are separated by commas.`;

const NO_COLOR = `\
  -no-color
      Write no colours, also to a terminal. The variable NO_COLOR does the same.`;

const ANSWER_FLAGS = `\
  -json
      Write the answer as JSON.
${NO_COLOR}`;

export const EVENTS_FLAGS = readFlagTable(`
Flags
  -follow
      Go on with each new event until interrupted.
  -since SINCE
      Only events since then: a duration (10m), a time (2026-01-31T12:00:00Z), or the number of an
      event. With -follow and without -since only new ones are shown.
  -kind KIND
      Only events of this kind, or several with commas: intention, chain, endpoint, protocol,
      plugin, certificate, limit, source, listener, secret, process.
  -json
      Write each event as JSON, one a line.
${NO_COLOR}
Proxies (default: all of this machine)
${SIDECARS_CHOICE}
`);

export const STATUS_FLAGS = readFlagTable(`
Flags
  -strict
      Exit with 1 for every trouble, also for one that stops no traffic.
  -quiet
      Print nothing: the exit code is the answer.
${ANSWER_FLAGS}
Proxies (default: all of this machine)
${SIDECARS_CHOICE}
`);

export const TOP_FLAGS = readFlagTable(`
Flags
  -sort COLUMN (default: rate)
      rate, errors, p50, p99, bytes or open. On a terminal the keys r, e, m, p, b and o choose it.
  -by NAMES (default: caller,upstream,endpoint,route)
      Rows that agree in these are shown as one.
  -interval DURATION (default: 2s)
      Time between two reads; the numbers are those of this time.
  -total
      Print one table of all traffic since each proxy started, and exit.
  -once
      Print one table and exit, as without a terminal.
${NO_COLOR}
Proxies (default: all of this machine)
${SIDECARS_CHOICE}
`);

export const TAP_FLAGS = readFlagTable(`
Which connections and requests (all conditions hold)
  -source SERVICE
      Of this caller: a service of the mesh, or the address of another caller.
  -upstream UPSTREAM
      To this upstream, from the local application.
  -path PREFIX
      Requests for a path that begins with this.
  -status STATUS
      Requests with this status, such as 503, or class, such as 5xx.
  -denied
      What an intention, a plugin or a limit refused.
  -slow DURATION
      What took at least this long.
Flags
  -header NAME ...
      Also show the value of this header, of request and response. Never one that may hold a secret.
  -json
      Write a JSON object a line.
${NO_COLOR}
Proxies (default: all of this machine)
${SIDECARS_CHOICE}
`);

export const DOCTOR_FLAGS = readFlagTable(`
Flags
  -admin ADDRESS ... (default: those that answer on ports 19000 to 19100 of 127.0.0.1)
      Look at the running proxies with these admin servers, [host]:port; several are separated by
      commas.
${ANSWER_FLAGS}
`);

export const CHECK_FLAGS = readFlagTable(`
Flags of check alone
  -strict
      Exit with 1 if a part is ignored or there is a warning, and nothing is refused.
  -online
      Look for everything that lets traffic fail now, as "postern doctor" does.
${ANSWER_FLAGS}
`);

export const PLUGIN_TEST_FLAGS = readFlagTable(`
Flags of test
  -only TEXT
      Run only the tests that have TEXT in their name.
  -watch
      Run the tests again whenever one of their files is saved, until Ctrl-C.
`);

export const PLUGIN_DEV_FLAGS = readFlagTable(`
Flags of dev
  -config JSON (default: {})
      The plugin's "config", as in a configuration file.
`);

export const VERSION_FLAGS = readFlagTable(`
Flags
  -check FILE
      Compare with a release: its SHA256SUMS, a file or a URL. Exits with 1 if that is newer.
`);
