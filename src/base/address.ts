/**
 * An address to listen on or to dial: a TCP address or a unix socket.
 *
 * @module
 */

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
