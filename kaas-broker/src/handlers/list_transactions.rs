//! ListTransactions (key 66, version 0): all transactional ids, by state or by producer (KIP-664).

use std::sync::Arc;

use kaas_core::coordinator::SLOTS;
use kaas_core::transaction::ListFilter;
use kaas_proto::messages::list_transactions_response::TransactionState;
use kaas_proto::messages::{ListTransactionsRequest, ListTransactionsResponse};

use crate::broker::Broker;
use crate::coordinators::answer;
use crate::error::ApiError;
use crate::request::{Answer, Reply, RequestCx};
use crate::router::Handler;

impl Handler<ListTransactionsRequest> for Broker {
    async fn handle(
        self: Arc<Self>,
        _: RequestCx,
        request: ListTransactionsRequest,
    ) -> Result<Reply<ListTransactionsResponse>, ApiError> {
        let names = request.state_filters.iter().map(|name| name.as_str());
        let (filter, unknown) = ListFilter::new(names, request.producer_id_filters);
        let mut transaction_states = Vec::new();
        for slot in 0..SLOTS {
            let called = self.transactions.call_slot(slot, |slot, _, _| slot.list(&filter));
            // Half a list would read as a whole one.
            let listed = answer(called).await.map_err(ApiError::new)?;
            transaction_states.extend(listed.into_iter().map(|one| TransactionState {
                transactional_id: one.transactional_id.into(),
                producer_id: one.producer_id,
                transaction_state: one.state.name().into(),
            }));
        }
        let unknown_state_filters = unknown.into_iter().map(Into::into).collect();
        let response =
            ListTransactionsResponse { unknown_state_filters, transaction_states, ..Default::default() };
        Ok(Reply::Now(Answer::Send(response)))
    }
}
