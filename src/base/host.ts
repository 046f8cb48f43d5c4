/** Addresses and hosts: IP addresses in one spelling, and texts that look like one. @module */

/** The canonical spelling; `undefined`: no address, as with a zone or a leading zero of IPv4. */
export function canonicalIpText(text: string): string | undefined {
  if (/^(?:(?:0|[1-9]\d{0,2})(?:\.(?!$)|$)){4}$/.test(text)) {
    return text.split(".").every((part) => Number(part) <= 255) ? text : undefined;
  }
  if (!/^[0-9a-fA-F:.]{2,45}$/.test(text) || !text.includes(":")) return undefined;
  const url = URL.parse(`http://[${text}]/`);
  return url ? url.hostname.slice(1, -1) : undefined;
}

/** The IP of a peer, `10.0.0.1:4711` or `[2001:db8::1]:4711`, in one spelling; mapped IPv4 as IPv4. */
export function peerIp(remote: string): string {
  const host = remote.slice(0, Math.max(remote.lastIndexOf(":"), 0)).replace(/^\[(.*)\]$/, "$1");
  const mapped = /^::ffff:([\d.]+)$/i.exec(host)?.[1];
  return canonicalIpText(mapped ?? host) ?? host;
}

/** The key of a caller's share: its IPv4 address, or its /64, since one IPv6 host has all of it. */
export function networkOf(remote: string): string {
  const end = remote.lastIndexOf("]");
  if (end < 0) {
    const colon = remote.lastIndexOf(":");
    return colon < 0 ? remote : remote.slice(0, colon);
  }
  const host = remote.slice(1, end).split("%")[0] ?? "";
  if (host.includes(".")) return host.slice(host.lastIndexOf(":") + 1);
  const [head = "", tail] = host.split("::");
  const groups = head === "" ? [] : head.split(":");
  if (tail !== undefined) {
    const rest = tail === "" ? [] : tail.split(":");
    while (groups.length + rest.length < 8) groups.push("0");
    groups.push(...rest);
  }
  return groups.slice(0, 4).map((group) => group.replace(/^0+(?=.)/, "").toLowerCase()).join(":");
}

/** All of 127/8, and `::1`; `ip` in the spelling of {@link canonicalIpText}. */
export function isLoopbackIp(ip: string): boolean {
  return ip === "::1" || ip.startsWith("127.");
}

/**
 * The reason why `host` cannot be reached, as a continuation of "names"; `undefined`: it may be a name or
 * is an address. No name ends in a number: such a text is an IPv4 address, of which only four parts are
 * taken, because programs read the old spellings (`127.1`, `010.0.0.1`) differently.
 */
export function hostFault(host: string): string | undefined {
  const isIpv6 = host.includes(":");
  const looksLikeIpv4 = /(?:^|\.)(?:\d+|0[xX][\da-fA-F]*)\.?$/.test(host);
  if (!isIpv6 && !looksLikeIpv4) return undefined;
  const address = isIpv6 ? host.replace(/%[\w.-]+$/, "") : host;
  if (canonicalIpText(address) !== undefined) return undefined;
  const shown = host.slice(0, 80).replace(/[^\x21-\x7e]/g, "?");
  return `${JSON.stringify(shown)}, which is no IPv${isIpv6 ? 6 : 4} address`;
}

export type Address =
  | { readonly kind: "tcp"; readonly host: string; readonly port: number }
  | { readonly kind: "unix"; readonly path: string };

/** A listening address; a unix socket may have a mode (`0o600`). */
export type BindAddress =
  | { readonly kind: "tcp"; readonly host: string; readonly port: number }
  | { readonly kind: "unix"; readonly path: string; readonly mode?: number };

/** `127.0.0.1:80`, `[::1]:80` or `unix:///run/x.sock`. */
export function formatAddress(address: Address | BindAddress): string {
  if (address.kind === "unix") return `unix://${address.path}`;
  const host = address.host.includes(":") ? `[${address.host}]` : address.host;
  return `${host}:${address.port}`;
}
