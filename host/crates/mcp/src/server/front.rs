//! Requests as the protocol has them, before the protocol library sees them.
//!
//! The library serves both eras with one set of methods, and answers for what was never
//! declared. Here each era has its own methods, and a subscription that cannot be had is refused
//! before it is acknowledged.

use std::borrow::Cow;
use std::sync::Arc;

use rmcp::model::{
    ClientNotification, ClientRequest, ErrorCode, ErrorData, Implementation, ProtocolVersion,
    ServerConfig, ServerResult,
};
use rmcp::service::{NotificationContext, RequestContext};
use rmcp::{RoleServer, Service};
use tokio::sync::Semaphore;

use super::ClientConnection;
use super::traffic::{Era, Traffic};
use toolhost_core::text;

/// Subscriptions of one connection at once; each is a request that stays open.
const SUBSCRIPTIONS_MAX: usize = 16;
/// Characters of an unknown method's name that are echoed.
const METHOD_CHARS_MAX: usize = 60;

/// What a connection's requests come to first.
pub(super) struct Front {
    connection: Arc<ClientConnection>,
    traffic: Arc<Traffic>,
    subscriptions: Semaphore,
}

impl Front {
    pub(super) fn new(connection: Arc<ClientConnection>, traffic: Arc<Traffic>) -> Front {
        Front { connection, traffic, subscriptions: Semaphore::new(SUBSCRIPTIONS_MAX) }
    }

    /// Tells whether the client's era has the request, and this server declares it.
    fn has(&self, request: &ClientRequest) -> bool {
        let is_modern = self.traffic.era() == Some(Era::Modern);
        match request {
            ClientRequest::InitializeRequest(_) | ClientRequest::SetLevelRequest(_) => !is_modern,
            ClientRequest::CompleteRequest(_)
            | ClientRequest::GetPromptRequest(_)
            | ClientRequest::ListPromptsRequest(_)
            | ClientRequest::ListResourcesRequest(_)
            | ClientRequest::ListResourceTemplatesRequest(_)
            | ClientRequest::ReadResourceRequest(_)
            | ClientRequest::SubscribeRequest(_)
            | ClientRequest::UnsubscribeRequest(_) => false,
            _ => true,
        }
    }
}

impl Service<RoleServer> for Front {
    async fn handle_request(
        &self,
        request: ClientRequest,
        context: RequestContext<RoleServer>,
    ) -> Result<ServerResult, ErrorData> {
        if !self.has(&request) {
            return Err(no_method(request.method()));
        }
        let _slot = match &request {
            ClientRequest::SubscriptionsListenRequest(_) => {
                Some(self.subscriptions.try_acquire().map_err(|_| {
                    let why = format!(
                        "{SUBSCRIPTIONS_MAX} subscriptions are open, and more cannot be; end one"
                    );
                    ErrorData::invalid_request(why, None)
                })?)
            }
            _ => None,
        };
        let version = context.protocol_version();
        let mut result = self.connection.handle_request(request, context).await?;
        if version.is_some_and(|version| version.as_str() >= ProtocolVersion::V_2026_07_28.as_str())
        {
            sign(&mut result, self.get_info().server_info);
        }
        Ok(result)
    }

    async fn handle_notification(
        &self,
        notification: ClientNotification,
        context: NotificationContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.connection.handle_notification(notification, context).await
    }

    fn get_info(&self) -> ServerConfig {
        Service::get_info(&self.connection)
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        Service::supported_protocol_versions(&self.connection)
    }
}

/// The newer era has no handshake, so results say whose they are.
fn sign(result: &mut ServerResult, server: Implementation) {
    let meta = match result {
        ServerResult::ListToolsResult(result) => &mut result.meta,
        ServerResult::CallToolResult(result) => &mut result.meta,
        // The library signs the others.
        _ => return,
    };
    match serde_json::to_value(server) {
        Ok(server) => {
            meta.get_or_insert_default().insert(SERVER_INFO.to_owned(), server);
        }
        Err(error) => tracing::error!("the server's name is no JSON: {error}"),
    }
}

/// Where a result of the newer era says who answers.
const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";

/// The protocol has no such method, or this server has it not.
pub(super) fn no_method(method: &str) -> ErrorData {
    let method = text::one_line(&text::cut(method, METHOD_CHARS_MAX));
    ErrorData::new(ErrorCode::METHOD_NOT_FOUND, format!("there is no method `{method}`"), None)
}
