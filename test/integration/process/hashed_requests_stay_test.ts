import { DevMesh } from "../../kit/mesh/dev_mesh.ts";
import { hashedRequests } from "../../stories/hashed_requests.ts";

hashedRequests(DevMesh);
