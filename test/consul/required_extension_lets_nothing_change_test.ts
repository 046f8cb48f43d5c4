import { CONSUL } from "../kit/mesh/consul.ts";
import { envoyExtensions } from "../stories/envoy_extensions.ts";

envoyExtensions(CONSUL);
