/**
 * What somebody else has written goes into logs without the secrets that we sent them.
 *
 * @module
 */

/** Shorter ones tell nobody anything, and may be words of the text. */
const TELLING = 8;

export function hideSecrets(text: string, secrets: readonly string[]): string {
  return secrets.filter(({ length }) => length >= TELLING)
    .reduce((rest, secret) => rest.replaceAll(secret, "(not shown)"), text);
}
