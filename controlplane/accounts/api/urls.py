from django.urls import path

from controlplane.accounts.api import views

urlpatterns = [
    path("me", views.MeView.as_view()),
    path("login", views.LoginView.as_view()),
    path("logout", views.LogoutView.as_view()),
    path("ws-ticket", views.TicketView.as_view()),
    path("projects", views.ProjectList.as_view()),
    path("tokens", views.TokenList.as_view()),
    path("tokens/<int:token>", views.TokenDetail.as_view()),
]
