import { CONSUL } from "../kit/consul.ts";
import { envoyExtensions } from "../stories/envoy_extensions.ts";

envoyExtensions(CONSUL);
